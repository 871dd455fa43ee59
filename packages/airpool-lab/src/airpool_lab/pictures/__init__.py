"""Models of your own cameras, judged on objects that they have not seen (`airpool fit`).

    made = job.make(pictures, CameraJob(out=Path("shop.safetensors"), folds=5))

job          from pictures to a model and its accuracy at each ε, beside the vote, one camera and chance
card         the page beside the model, and its figure
tuning       a trunk trained on
"""
