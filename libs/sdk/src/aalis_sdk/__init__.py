"""What every process on the mesh needs."""
