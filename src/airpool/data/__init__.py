"""Objects and their views: packed meshes, our own shapes, and the renderers."""
