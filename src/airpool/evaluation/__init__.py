"""Evaluation of networks: accuracy by simulation and by theory, designs, plans, sweeps and audits.

objects      encoded objects and their decoder; own_objects: of your own latents or views
evaluate     accuracy on given latents, with error bars, beside the guarantee; trial: one batch of it
in_words     an evaluation in words
inferences   inferences in bulk, until the server is sure; slots: the slots that they used
prediction   mean square error and proven accuracy without a simulation (theory/)
design/      weights and clip norms for heterogeneous targets
plan/        the best network for a budget
sweep/       a function over a grid of parameters; settings: ε and accuracy for it
audit/       attacks on the implementation, for a lower bound on ε
attacks/     attacks on what is sent, each beside the bound of its position
pictures/    models of your own cameras, judged on unseen objects
training/    training jobs, from data to weights and their card
demo/        the content of `airpool demo`
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
