//! Casts, factories, dropout and in-place forms.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("fake_quantize_per_tensor_affine", Family::Quant, Class::Keep, "quantisation grid needs fp32"),
    Op::new("dropout", Family::Random, Class::Keep, "mask and scale").implemented(),
    Op::new("alpha_dropout", Family::Random, Class::Keep, "mask and affine").implemented(),
    Op::new("bernoulli", Family::Random, Class::Keep, "sampling").implemented(),
    Op::new("to", Family::Cast, Class::Keep, "explicit cast always honoured").implemented(),
    Op::new("cpu", Family::Cast, Class::Keep, "Apex upcasts to fp32 before a device-to-host copy")
        .instead("`to_device`"),
    Op::new("item", Family::Cast, Class::Full, "a number of the host, which is no 16-bit one")
        .torch("cpu")
        .departs("PyTorch gives a Python float, whatever the tensor holds")
        .implemented(),
    Op::new("to_vec", Family::Cast, Class::Full, "numbers of the host, which are no 16-bit ones")
        .torch("cpu")
        .departs("PyTorch's `tolist` gives Python floats, whatever the tensor holds")
        .implemented(),
    Op::new("zeros_like", Family::Factory, Class::Keep, "keeps the input dtype").implemented(),
    Op::new("ones_like", Family::Factory, Class::Keep, "keeps the input dtype").implemented(),
    Op::new("full_like", Family::Factory, Class::Keep, "keeps the input dtype").torch("zeros_like").implemented(),
    Op::new("rand_like", Family::Random, Class::Keep, "keeps the input dtype").torch("zeros_like").implemented(),
    Op::new("randn_like", Family::Random, Class::Keep, "keeps the input dtype").torch("zeros_like").implemented(),
    Op::new("multinomial", Family::Random, Class::Full, "small weights and draws vanish in fp16")
        .torch("bernoulli")
        .departs("PyTorch draws in the dtype it is given, where small exponential draws become 0")
        .implemented(),
    Op::new(
        "zeros",
        Family::Factory,
        Class::Keep,
        "factories use the default dtype (fp32) and never the autocast dtype",
    )
    .instead("`Tensor::zeros`")
    .tensors(&[]),
    Op::new("full", Family::Factory, Class::Keep, "factories use the default dtype")
        .instead("`Tensor::full`")
        .tensors(&[]),
    Op::new("arange", Family::Factory, Class::Keep, "factories use the default dtype")
        .instead("`Tensor::arange`")
        .tensors(&[]),
    Op::new("add_", Family::Inplace, Class::Keep, "in-place never autocasts; result keeps self dtype"),
    Op::new("addmm_", Family::Inplace, Class::Keep, "in-place never autocasts; operand dtypes must match"),
    Op::new("exp_", Family::Inplace, Class::Keep, "in-place never autocasts (Apex raises on fp16 self)"),
    Op::new("mm_out", Family::Inplace, Class::Keep, "out= variant never autocasts").instead("`mm`"),
];
