// A transformer as Megatron's arguments describe it. The defaults are Megatron's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/base/error.h"

namespace plumbline::model::megatron {

struct ModelShape {
#define FIELD(type, name, missing) type name = missing;
#include "model/megatron/model_shape.def"

  std::int64_t ffn() const;
  std::int64_t key_value_heads() const { return grouped_query ? query_groups : heads; }
};

// Calls visit(name, field) with the names that the table of arguments uses.
template <class Shape, class Visitor>
void visit_shape(Shape& shape, Visitor&& visit) {
#define FIELD(type, name, missing) visit("shape." #name, shape.name);
#include "model/megatron/model_shape.def"
}

// The layers that hold experts: not the first `dense_first`, then every `frequency`-th. No other pattern can be parsed.
struct ExpertLayers {
  std::int64_t dense_first = 0;
  std::int64_t frequency = 1;
};
std::optional<ExpertLayers> parse_expert_layers(const std::string& text, std::int64_t layers);
std::string expert_layers_text(const ExpertLayers& which, std::int64_t layers);

}  // namespace plumbline::model::megatron
