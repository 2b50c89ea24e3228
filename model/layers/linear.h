// Emits y = x W^T + b with W[out, in], its gradients, and the casts of FP8 training (DeepSeek-V3 report, arXiv
// 2412.19437, section 3.3: activations in 1x128 tiles, weights in 128x128 blocks). In every other quantized format
// weights are stored in BF16 and cast where they are used, in both layouts. Casts to one scale per tensor, and to
// NVFP4, whose scales have one over the tensor above them (arXiv 2509.25149), first find the largest entry. With a
// scale for each row (pytorch/ao torchao/float8/config.py, Float8LinearRecipeName.ROWWISE) nothing is found first, the
// other direction is another cast of 16 bits, and tokens are gathered before they are cast. With delayed scaling the
// one scale is known before (Transformer Engine, DelayedScaling), and one kernel writes a gradient in both layouts, as
// it does in MXFP8. Where GEMMs with one scale per tensor read operands along either direction, as on GPUs of compute
// capability 10 (NVIDIA/TransformerEngine transformer_engine/pytorch/csrc/quantizer.cpp,
// Float8Quantizer::create_tensor: with_transpose = columnwise_usage && !nvte_is_non_tn_fp8_gemm_supported()), nothing
// has a second layout: gradients reuse the operands of the forward GEMM. Weights that are cast once a step are
// constants of a micro-batch in both layouts (model/program/data_parallel.h casts them). Weights of inference are
// stored in their format.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

struct LinearOptions {
  OperandFormat operands;
  RecomputeGroup input_group = RecomputeGroup::other;   // group of the cast of x
  RecomputeGroup output_group = RecomputeGroup::other;  // group of the GEMM
  bool bias = false;                                    // added by the GEMM kernel as it writes
  std::string weight;                                   // name of W; empty: that of the GEMM
  bool shared = false;                                  // W belongs to another block of the same rank
  bool divided = false;                                 // W and b are this rank's part of larger tensors
  bool divided_by_rows = false;                         // by rows of x W^T's sum: x is a part too
  CollectiveAttributes sums_gradient = {};              // ranks that each make a part of the gradient of x
  // Ranks that divide the tokens of the gradient of y, of quantized GEMMs: [T/t, out]. They cast it before they gather.
  CollectiveAttributes gathers_gradient = {};
  std::int64_t chunks = 1;  // of tokens, one GEMM each
  bool detached = false;    // x gets no gradient; of operands in 16 bits or more
  bool partial = false;     // a row-parallel GEMM returns the rank's part of the sum, and stays in the region
  std::optional<TensorId> gradient_of = {};  // gets the gradient of x; default: x
  std::vector<std::int64_t> parts = {};      // columns of the rank's y of each matrix in W; empty: it is one
  bool own_adapter = false;                  // the adapter is a part of the model
};

// Returns a weight as GEMMs in 16 bits read it: a copy of one that is stored in NF4.
TensorId stored_in_16_bits(GraphBuilder& builder, const std::string& copy, TensorId weight, DataType type);

// A tensor in the format of a GEMM.
struct Layouts {
  TensorId rows;
  std::optional<TensorId> columns = {};  // transposed, where the kernel that casts the rows writes them too
};

// Casts a matrix by the kernel of that name; with `columns` it also writes the transpose.
Layouts cast_layouts(GraphBuilder& builder, const std::string& name, const std::string& cast_name, TensorId x,
                     DataType type, bool columns, const CastAttributes& attributes);

// Returns x in the format of the GEMM `name`, cast if it has 16 bits and the format fewer.
TensorId gemm_operand(GraphBuilder& builder, const std::string& name, TensorId x, const OperandFormat& format);

// Adds to y what adapters make of the input of its GEMM: `adapter` returns (x A^T) B^T of that name and width for each
// part of y's columns; they are this block's, whichever has the weight. The kernel that joins them stands for those
// that scale them, by 1: alpha is taken as the rank. The model's `own` are not scaled, and trained where it is.
TensorId add_adapters(GraphBuilder& builder, const std::string& name, TensorId y,
                      const std::vector<std::int64_t>& parts, RecomputeGroup group, bool own,
                      const std::function<TensorId(const std::string&, std::int64_t)>& adapter);

// Shapes: x [T, in] -> [T, out]. GEMMs of quantized operands need both contiguous in K, but in one layout. So the input
// gradient needs W transposed and the weight gradient both operands transposed.
TensorId linear(GraphBuilder& builder, const std::string& name, TensorId x, std::int64_t out,
                const LinearOptions& options);

// Emits the borders of a region in which every tensor-parallel rank computes its own heads or columns (arXiv
// 1909.08053, section 3). With sequence parallelism the ranks divide the tokens outside of such regions (arXiv
// 2205.05198, section 4.2.2): T / tensor of them on each. Without tensor parallelism no operators are emitted.

// Returns x as all ranks of the region read it. With sequence parallelism x is gathered, [T/t, n] -> [T, n], and
// gathered again in the backward pass instead of kept; its gradient is reduce-scattered. Else the result is x itself,
// and the region must sum its gradients.
TensorId enter_tensor_region(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);
// The same of an x that the GEMM `gemm` alone reads: for a quantized one in training: each rank casts its own tokens
// before they are gathered and keeps them so, as Transformer Engine does (gather_along_first_dim in
// transformer_engine/pytorch/distributed.py). Gradients that enter a region by row_parallel_linear are cast before they
// are gathered too, and with scales by direction (MXFP8, NVFP4) gathered in both layouts. With an adapter next to the
// GEMM all are gathered in 16 bits, which it reads (return_layernorm_output_gathered in layernorm_linear.py).
TensorId enter_tensor_region(GraphBuilder& builder, const LayerContext& context, const std::string& gemm, TensorId x,
                             const LinearOptions& reader);

// Returns the sum of the ranks' parts of y: all of it on each rank or, under sequence parallelism, its own tokens.
TensorId leave_tensor_region(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId y);

// These are the GEMMs at the borders of a region. column_parallel_linear divides W by columns, [T, in] -> [T, out / t].
// Before the exit row_parallel_linear divides it by rows, [T, in / t], leaves the region and then adds the bias.
TensorId column_parallel_linear(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                                std::int64_t out, LinearOptions options);
TensorId row_parallel_linear(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                             std::int64_t out, LinearOptions options);

// Returns what head_matmul makes of x [T, heads*(in+copied)] and a weight [heads, out, in] of the rank's heads.
TensorId head_linear(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                     const HeadMatmulAttributes& heads, std::int64_t in, std::int64_t out);

// Returns the ranks whose parts add up to a gradient inside a region, where the backward pass of no gather sums them.
CollectiveAttributes summing_ranks(const LayerContext& context);

// Gathers keys or values of whole sequences over the context-parallel ranks, [T, n] -> [context T, n].
TensorId gather_sequence(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);

// Sends the rows of a rank's heads to the context-parallel ranks that work on them, [T, heads n] -> [context T, heads n
// / context], or a copy of one head where ranks outnumber them; return_heads sends the rows back.
TensorId send_heads(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                    std::int64_t heads);
TensorId return_heads(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);
// The same of tensors in the order of heads and tokens. Columns are put in the order of ranks before they are sent, and
// rows in that of tokens after, of which each rank has two pieces (NVIDIA/TransformerEngine
// transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py, flash_attn_a2a_communicate; of one
// sequence deepspeedai/DeepSpeed @25493c7 deepspeed/sequence/layer.py orders columns alone).
TensorId whole_sequences(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                         std::int64_t heads);
TensorId own_tokens(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);

// These two run over the ranks that each hold some columns of the same experts: gather_received collects their received
// tokens, [R, n] -> [R e, n]; scatter_received reduce-scatters the experts' results. `has_gradient`: the tensor has a
// gradient.
TensorId gather_received(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                         bool has_gradient = true);
TensorId scatter_received(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId y);

}  // namespace plumbline::model
