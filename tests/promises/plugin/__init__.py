"""The broker's plug-in: a real broker whose topic policies the sidecar stores."""
