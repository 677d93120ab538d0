//! A macro for tasks that wrap a part: such a task exposes only the part's parameters, under the part's own paths.
//! Frozen networks of the task move between devices with it.

/// Implements `Module` and `Display` for the task `$task` by its field `$part`. The task needs a method `each`, which
/// applies one function to the part and another one to everything frozen.
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
