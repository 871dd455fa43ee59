"""Evaluation of networks: accuracy by simulation and by theory, designs, plans and audits.

objects      encoded objects and their decoder, of a model or of your own latents or views
evaluate     accuracy on given latents, with error bars, beside the guarantee; in words
inferences   inferences in bulk, until the server is sure, and the slots that they used
settings     ε and accuracy as functions of a network's settings
mse          exact mean square error without a simulation
design/      weights and clip norms for heterogeneous targets
plan/        the best network for a budget
audit/       attacks on the implementation, for a lower bound on ε
"""
