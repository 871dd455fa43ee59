"""Your own sensors in twenty lines: four of them see a quadrant each of a handwritten digit.

    pip install scikit-learn
    python examples/own_data.py

Put your own in its place: arrays (N, F) of features, one for each sensor, and N labels. 45 seconds on one core.
"""

from sklearn.datasets import load_digits  # pyright: ignore[reportMissingImports]

import airpool

images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)
sensors = [images[:, i : i + 4, j : j + 4].reshape(-1, 16) for i in (0, 4) for j in (0, 4)]

model = airpool.fit(sensors, labels, epsilon=(2, 4, 8))
model.save("digits.safetensors")  # airpool evaluate --model digits.safetensors --epsilon 4

net = airpool.Network.uniform(num_devices=4, dimension=model.codec().dimension)
for epsilon in (2, 4, 8):
    run = airpool.evaluate(model, airpool.calibrate(net, epsilon=epsilon))
    print(f"ε = {run.report.worst:.3f}  accuracy {run.accuracy_mean:.3f}  ({run.objects} unseen digits)")
