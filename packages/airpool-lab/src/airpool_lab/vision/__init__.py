"""The workshop of trunks: CAD models to views, training, and a trunk in int8.

cad, prepare         the packed file of many meshes; how it is made
renders              views of packed objects
training, runs       training of a trunk; from plan to file
quantisation         a trunk in int8, as an ONNX graph
"""
