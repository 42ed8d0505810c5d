//! What every built-in optimizer has: a constructor, builder methods, the trait.

/// Declares an optimizer around its groups: constructor, builder methods, and the trait.
macro_rules! optimizer {
    (
        $(#[$doc:meta])* $name:ident, $op:literal, $start:expr $(, $setup:ident)?,
        { $($(#[$option_doc:meta])* $option:ident: $type:ty => |$rule:ident, $value:ident| $set:expr;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($crate::optim::ParameterGroups);

        impl $name {
            /// An optimizer of these parameters with learning rate `lr`; a parameter given twice counts once.
            pub fn new(
                parameters: impl IntoIterator<Item = $crate::Parameter>,
                lr: f64,
            ) -> Self {
                let mut rule = $start;
                *$crate::optim::rule::lr_mut(&mut rule) = lr;
                Self($crate::optim::ParameterGroups::new(parameters, lr, rule)$(.$setup())?)
            }

            /// Starts another parameter group with the settings so far; the builder calls that follow change it alone.
            ///
            /// A parameter may be in one group only: with one in two groups, every step is an error.
            #[doc(alias("param_groups", "add_param_group"))]
            pub fn group(mut self, parameters: impl IntoIterator<Item = $crate::Parameter>) -> Self {
                self.0.next(parameters);
                self
            }

            /// Learning rate of the group.
            pub fn lr(mut self, lr: f64) -> Self {
                self.0.change(|group| {
                    group.initial_lr = lr;
                    *$crate::optim::rule::lr_mut(&mut group.rule) = lr;
                });
                self
            }

            $(
                $(#[$option_doc])*
                pub fn $option(mut self, $value: $type) -> Self {
                    self.0.change(|group| {
                        let $rule = &mut group.rule;
                        $set;
                    });
                    self
                }
            )*
        }

        impl $crate::optim::Optimizer for $name {
            fn parameters(&self) -> &[$crate::Parameter] {
                self.0.parameters()
            }

            fn apply(&mut self, grads: &$crate::Gradients) -> $crate::Result<()> {
                self.0.update($op, grads, None)
            }

            fn schedule(&mut self, factor: f64) {
                self.0.schedule(factor);
            }

            fn learning_rate(&self) -> f64 {
                self.0.learning_rate()
            }

            fn groups(&mut self) -> Option<&mut $crate::optim::ParameterGroups> {
                Some(&mut self.0)
            }
        }
    };
}
pub(super) use optimizer;
