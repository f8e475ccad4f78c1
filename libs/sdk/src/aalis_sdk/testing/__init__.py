"""Real servers and real processes for tests, for whoever builds on the mesh.

Put `pytest_plugins = ["aalis_sdk.testing.fixtures"]` into the root `conftest.py`; `fixtures` says
what a test may then ask for. Nothing here is imported by the product.
"""
