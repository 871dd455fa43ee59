"""The laboratory of airpool: what researchers need beside the library.

paper/         its formulas as printed, and every figure and table redrawn
attacks/       attacks on what is sent, each beside the bound of its position
audit/         adaptive audits, by received energy, and look by look
theory/        accuracy without a simulation: proven bounds
training/      training jobs, from data to weights and their card; vision/: trunks, CAD models, int8
pictures/      models of your own cameras, judged on unseen objects
bundle         what a device needs of a model, in one file: how it is made
waveform/      OFDM samples; sionna_models: 3GPP channels
sweep          a function over a grid of parameters
demo/          the content of `airpool demo`
cli/           the commands
"""
