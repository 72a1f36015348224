//! Files in, model out.

pub mod nsys;
pub mod ranks;
pub mod sniff;
