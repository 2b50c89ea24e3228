#include <array>

#include "model/graph/attributes.h"

namespace plumbline::model {

std::string_view to_string(OperatorKind kind) {
  static constexpr auto names = std::to_array<std::string_view>({
#define OPERATOR(kind, ...) #kind,
#include "model/graph/operators.def"
  });
  return names[static_cast<std::size_t>(kind)];
}

std::size_t attributes_index(OperatorKind kind) {
  static const auto indices = std::to_array<std::size_t>({
#define OPERATOR(kind, attributes, ...) Attributes(attributes{}).index(),
#include "model/graph/operators.def"
  });
  return indices[static_cast<std::size_t>(kind)];
}

}  // namespace plumbline::model
