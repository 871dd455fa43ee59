"""Cameras: meshes and images to views, trunks, and their int8 form. How trunks are made: airpool_lab.vision.

meshes, shapes            mesh files; our own sample objects
picture                   a photograph or a frame as a trunk takes it
views                     views of a mesh
mvcnn, lite               one network over many views, and its trunks
features                  what a trunk makes of views; checks of views from outside
int8                      a trunk in int8, on a device without torch
"""
