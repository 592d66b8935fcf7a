"""Recordings of burstctl on a terminal, as animated pictures: `make recordings` writes them."""
