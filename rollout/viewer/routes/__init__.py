"""The endpoints of the server, a module for each subject: each lists its own in `ENDPOINTS`."""
