"""From the files of annotation tools, crowds and models to `Annotations`: `oneof.importing.files`."""
