"""Commands of this package: attack, bundle, data, demo, fit, radio, reproduce, sweep, theory and train.

training     options that fit and train share
"""
