"""Objects and their views: the voxels of ModelNet40, meshes, our own shapes, and the renderer."""
