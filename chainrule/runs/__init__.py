"""Run folders: what training makes and every other command takes."""
