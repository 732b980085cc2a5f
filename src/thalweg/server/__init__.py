"""The service: `thalweg serve`, an ASGI application over the in-process engine.

The web side (`app` and the modules of routes) moves bytes. One thread (`service`) owns the session, the log and all
state; what it does is an operation that the log has before it is carried out.
"""
