//! Tasks around a part whose parameters are all that they show, under that part's own paths. What stands frozen beside it moves with it.

/// `Module` and `Display` for the task `$task` around its field `$part`. A method `each` of the task gives the part, and all that is
/// frozen, to a function each.
macro_rules! shows_alone {
    ($task:ident, $part:ident) => {
        impl burn::module::Module for $task {
            fn collect_devices(&self, devices: burn::module::Devices) -> burn::module::Devices {
                self.$part.collect_devices(devices)
            }

            fn fork(self, device: &burn::tensor::Device) -> Self {
                self.each(|part| part.fork(device), |frozen| frozen.fork(device))
            }

            fn to_device(self, device: &burn::tensor::Device) -> Self {
                self.each(
                    |part| part.to_device(device),
                    |frozen| frozen.to_device(device),
                )
            }

            fn train(self) -> Self {
                self.each(|part| part.train(), |frozen| frozen)
            }

            fn valid(&self) -> Self {
                self.clone().each(|part| part.valid(), |frozen| frozen)
            }

            fn materialize(self) -> Self {
                self.each(|part| part.materialize(), |frozen| frozen)
            }

            fn visit<V: burn::module::ModuleVisitor>(&self, visitor: &mut V) {
                self.$part.visit(visitor);
            }

            fn map<M: burn::module::ModuleMapper>(self, mapper: &mut M) -> Self {
                self.each(|part| part.map(mapper), |frozen| frozen)
            }
        }

        impl std::fmt::Display for $task {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.$part, f)
            }
        }
    };
}
pub(super) use shows_alone;
