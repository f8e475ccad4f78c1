"""What touches the world: the database, and the mesh on which events are told."""
