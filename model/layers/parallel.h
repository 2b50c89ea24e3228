// The borders of a region in which every tensor-parallel rank works on its own heads or columns (arXiv 1909.08053,
// section 3). With sequence parallelism the ranks share out the tokens outside of such regions (arXiv 2205.05198,
// section 4.2.2): T / tensor of them on each. Without tensor parallelism nothing is emitted.
#pragma once

#include <string>
#include <vector>

#include "model/graph/builder.h"
#include "model/layers/context.h"
#include "model/layers/linear.h"

namespace plumbline::model {

// x as all ranks of the region read it. Sequence parallelism: gathered, [T/t, n] -> [T, n], and not kept but gathered
// again where the backward pass needs it; its gradient is summed and shared out. Else x itself, whose gradients the
// region must sum.
TensorId enter_tensor_region(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);

// The sum of the ranks' parts of y, on all of them or, with sequence parallelism, on each its own tokens of it.
TensorId leave_tensor_region(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId y);

// Products at the borders of a region: W divided by columns behind its entry, [T, in] -> [T, out / t], and by rows
// before its exit, [T, in / t] -> the sum as leave_tensor_region() makes it, the bias added to that.
TensorId column_parallel_linear(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                                std::int64_t out, LinearOptions options);
TensorId row_parallel_linear(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                             std::int64_t out, LinearOptions options);

// The ranks whose parts make a gradient inside a region, where no gather's own backward pass sums them.
CollectiveAttributes summing_ranks(const LayerContext& context);

// Over the ranks that hold the pieces of each sequence: keys or values of all its tokens, [T, n] -> [context T, n].
TensorId gather_sequence(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);

// Over the ranks that each hold some columns of the same experts: their received tokens together, [R, n] -> [R e, n],
// and back the sum of what they made of them.
// What has no gradient passes so only.
TensorId gather_received(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                         bool has_gradient = true);
TensorId scatter_received(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId y);

}  // namespace plumbline::model
