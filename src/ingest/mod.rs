//! Files on their way into the model: opened, told apart by their content, read.

pub mod inspector;
