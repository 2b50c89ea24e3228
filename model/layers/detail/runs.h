// Keys that each stand for a run of tokens (DeepSeek-V4, arXiv 2606.19348, section 2.3; class DeepseekCompressor of
// vllm-project/vllm @01cc1d3 vllm/models/deepseek_v4/compressor.py).
#pragma once

#include <optional>
#include <string>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

struct RunKeys {
  std::int64_t run = 0, columns = 0;  // tokens of a run, columns of its key
  bool overlaps = false;              // a key is of the run before it, too
  bool detached = false;              // what it is projected from gets no gradient
};

// Returns the normalised and rotated keys of the runs in x [T, H], whole on each tensor rank: [K, columns]. In a pass
// of inference the projections of tokens whose run has not ended are kept. Projections have 16 bits whatever the format
// of GEMMs.
TensorId keys_of_runs(GraphBuilder& builder, const LayerContext& context, const std::string& prefix, TensorId x,
                      std::optional<TensorId> lengths, const RunKeys& keys);

// Returns the bytes of the projections that are kept for one request in one layer, in FP32.
double run_state_bytes(const Architecture& architecture, Mixer mixer);

}  // namespace plumbline::model
