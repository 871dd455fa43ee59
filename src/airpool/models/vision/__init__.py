"""Cameras: meshes and images to views, trunks, their training and their int8 form."""
