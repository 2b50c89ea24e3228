// Reads and writes the patterns of Megatron's hybrid models, of which each layer does one thing
// (megatron/core/models/hybrid/hybrid_layer_allocation.py of Megatron-LM @089b33b8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/model_shape.h"

namespace plumbline::model::megatron {

struct HybridPattern {
  std::string layers;                // a symbol each
  std::vector<std::int64_t> counts;  // of the layers of each stage; one number: no stages are stated
  std::string prediction;            // the layers of each prediction module
  std::int64_t predictions = 0;      // how many modules there are
};

// Parses "M-M*|[ME]*E/*E/*E". Brackets group layers for checkpoints and change nothing here. Returns nothing for other
// text, and for modules that differ.
std::optional<HybridPattern> parse_hybrid_pattern(std::string_view text);

// Returns such a text, with a module "*E" for each prediction layer.
std::string hybrid_pattern_text(std::string_view layers, const std::vector<std::int64_t>& counts,
                                std::int64_t predictions);

// Returns the layers that shares of attention and MLPs give: both spread evenly between those of Mamba-2
// (_allocate_auto() of megatron/core/ssm/mamba_hybrid_layer_allocation.py @00caa53a). Shares that make no layers give
// none.
std::string hybrid_layers_of_shares(std::int64_t layers, double attention, double mlp);

// Returns whether each two layers are one of attention and an MLP or experts, which a model without Mamba-2 is read as.
bool is_paired(std::string_view layers);

// Sets the layers of the shape, and its prediction modules: none where no model type has such ones. Infeasible where no
// model type has such layers.
Result<void> take_hybrid_layers(const HybridPattern& pattern, ModelShape& shape);

}  // namespace plumbline::model::megatron
