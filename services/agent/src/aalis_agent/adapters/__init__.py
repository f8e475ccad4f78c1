"""The edges: how a turn reaches the mesh, the models and the settings."""
