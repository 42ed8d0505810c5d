//! Convolutions, recurrent cells, attention and normalisation layers.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("conv1d", Family::Conv, Class::Lower, "tensor-core convolution; fp32 accumulate")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("conv2d", Family::Conv, Class::Lower, "tensor-core convolution; fp32 accumulate")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("conv3d", Family::Conv, Class::Lower, "tensor-core convolution (fp16 slow before cuDNN 7.6.2)")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("conv_tbc", Family::Conv, Class::Lower, "time-batch-channel conv; lowered to GEMM").tensors(&[0, 1, 2]),
    Op::new("conv_transpose1d", Family::Conv, Class::Lower, "tensor-core data-gradient convolution")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("conv_transpose2d", Family::Conv, Class::Lower, "tensor-core data-gradient convolution")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("conv_transpose3d", Family::Conv, Class::Lower, "tensor-core data-gradient convolution")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("convolution", Family::Conv, Class::Lower, "generic entry behind conv*d; CUDA list only")
        .instead("`conv2d`")
        .tensors(&[0, 1, 2]),
    Op::new(
        "_convolution",
        Family::Conv,
        Class::Lower,
        "internal entry; on CPU only the deprecated 12-argument overload is registered",
    )
    .instead("`conv2d`")
    .tensors(&[0, 1, 2]),
    Op::new("cudnn_convolution", Family::Conv, Class::Lower, "direct cuDNN entry")
        .instead("`conv2d`")
        .tensors(&[0, 1, 2]),
    Op::new("cudnn_convolution_transpose", Family::Conv, Class::Lower, "direct cuDNN entry")
        .instead("`conv_transpose2d`")
        .tensors(&[0, 1, 2]),
    Op::new(
        "depthwise_conv2d",
        Family::Conv,
        Class::Lower,
        "same conv2d op with groups; TF adds it only for cuDNN>=8 (fp16 kernel was slow)",
    )
    .instead("`conv2d` with groups")
    .tensors(&[0, 1, 2]),
    Op::new("unfold", Family::Conv, Class::Keep, "data movement").implemented(),
    Op::new("fold", Family::Conv, Class::Keep, "overlapping adds; not listed").implemented(),
    Op::new("lstm_cell", Family::Rnn, Class::Lower, "gate GEMMs dominate")
        .instead("`nn::LstmCell`")
        .tensors(&[0, 1, 2, 3, 4, 5, 6]),
    Op::new("gru_cell", Family::Rnn, Class::Lower, "gate GEMMs dominate")
        .instead("`nn::GruCell`")
        .tensors(&[0, 1, 2, 3, 4, 5, 6]),
    Op::new(
        "rnn_tanh_cell",
        Family::Rnn,
        Class::Lower,
        "gate GEMMs dominate; CPU not registered but inherits lower from linear",
    )
    .instead("`nn::RnnCell`")
    .tensors(&[0, 1, 2, 3, 4, 5, 6]),
    Op::new(
        "rnn_relu_cell",
        Family::Rnn,
        Class::Lower,
        "gate GEMMs dominate; CPU not registered but inherits lower from linear",
    )
    .instead("`nn::RnnCell`")
    .tensors(&[0, 1, 2, 3, 4, 5, 6]),
    Op::new(
        "_thnn_fused_lstm_cell",
        Family::Rnn,
        Class::Lower,
        "fused pointwise part of the cell must match GEMM dtype",
    )
    .instead("`nn::LstmCell`")
    .tensors(&[0, 1, 2, 3, 4, 5, 6]),
    Op::new(
        "_thnn_fused_gru_cell",
        Family::Rnn,
        Class::Lower,
        "fused pointwise part of the cell must match GEMM dtype",
    )
    .instead("`nn::GruCell`")
    .tensors(&[0, 1, 2, 3, 4, 5, 6]),
    Op::new(
        "_cudnn_rnn",
        Family::Rnn,
        Class::Lower,
        "special wrapper: weights cast into one flat half buffer so cuDNN stays packed",
    )
    .instead("`nn::Lstm`, `nn::Gru`"),
    Op::new("mkldnn_rnn_layer", Family::Rnn, Class::Lower, "oneDNN fused RNN; CPU only")
        .departs("a recurrent layer like the others; PyTorch lists it on the CPU only"),
    Op::new(
        "scaled_dot_product_attention",
        Family::Attention,
        Class::Lower,
        "fused attention on tensor cores; softmax kept fp32 inside kernel",
    )
    .tensors(&[0, 1, 2])
    .implemented(),
    Op::new(
        "scaled_dot_product_attention_biased",
        Family::Attention,
        Class::Lower,
        "products of 16 bits; scores, biases and softmax are F32 inside",
    )
    .torch("scaled_dot_product_attention")
    .tensors(&[0, 1, 2])
    .implemented(),
    Op::new(
        "_scaled_dot_product_flash_attention",
        Family::Attention,
        Class::Lower,
        "flash kernel exists only for 16-bit",
    )
    .instead("`scaled_dot_product_attention`")
    .tensors(&[0, 1, 2]),
    Op::new("_native_multi_head_attention", Family::Attention, Class::Lower, "fused inference MHA; CPU list only")
        .instead("`nn::MultiHeadAttention`")
        .tensors(&[0, 1, 2])
        .departs("attention like the others; PyTorch lists it on the CPU only"),
    Op::new("layer_norm", Family::NormLayer, Class::Full, "mean/variance accumulation")
        .tensors(&[0, 2, 3])
        .implemented()
        .direct(),
    Op::new("native_layer_norm", Family::NormLayer, Class::Full, "mean/variance accumulation")
        .instead("`layer_norm`")
        .tensors(&[0, 2, 3]),
    Op::new("rms_norm", Family::NormLayer, Class::Full, "mean of squares overflow")
        .tensors(&[0, 2])
        .implemented()
        .direct(),
    Op::new("group_norm", Family::NormLayer, Class::Full, "mean/variance accumulation")
        .tensors(&[0, 2, 3])
        .implemented()
        .direct(),
    Op::new(
        "batch_norm",
        Family::NormLayer,
        Class::Full,
        "cuDNN kernel takes 16-bit data with fp32 stats/affine so it is neutral (MPS autocast forces fp32)",
    )
    .instead("`nn::BatchNorm2d`")
    .tensors(&[0, 1, 2, 3, 4])
    .departs("all norms are full here: statistics in F32, result F32; PyTorch runs it mixed inside one kernel"),
    Op::new(
        "batch_norm_train",
        Family::NormLayer,
        Class::Full,
        "cuDNN kernel takes 16-bit data with fp32 stats/affine so it is neutral (MPS autocast forces fp32)",
    )
    .torch("batch_norm")
    .tensors(&[0, 1, 2])
    .departs("all norms are full here: statistics in F32, result F32; PyTorch runs it mixed inside one kernel")
    .implemented()
    .direct(),
    Op::new(
        "batch_norm_eval",
        Family::NormLayer,
        Class::Full,
        "cuDNN kernel takes 16-bit data with fp32 stats/affine so it is neutral (MPS autocast forces fp32)",
    )
    .torch("batch_norm")
    .tensors(&[0, 1, 2, 3, 4])
    .departs("all norms are full here: statistics in F32, result F32; PyTorch runs it mixed inside one kernel")
    .implemented()
    .direct(),
    Op::new("instance_norm", Family::NormLayer, Class::Full, "uses batch_norm with fp32 stats")
        .tensors(&[0, 1, 2])
        .departs("all norms are full here: statistics in F32, result F32; PyTorch runs it mixed inside one kernel")
        .implemented()
        .direct(),
    Op::new("local_response_norm", Family::NormLayer, Class::Full, "pow inside").implemented(),
];
