//! Every form of index, as the reader understands it.
