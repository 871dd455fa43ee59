"""The quality of an inference without running it, beyond its mean square error (airpool.evaluation.mse). float64.

prediction   the law of the estimate, how far it may move, proven accuracy
server       the layers behind the sum, their scores and gaps
"""
