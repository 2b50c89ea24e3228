#include <algorithm>
#include <array>
#include <string>

#include "model/graph/attributes.h"

namespace plumbline::model {

std::string_view to_string(OperatorKind kind) {
  static constexpr auto names = std::to_array<std::string_view>({
#define OPERATOR(kind, ...) #kind,
#include "model/graph/operators.def"
  });
  return names[static_cast<std::size_t>(kind)];
}

namespace {

constexpr auto kernel_names =
    std::to_array<std::string_view>({"fused", "cudnn", "flash2", "flash3", "triton", "unfused"});

}  // namespace

std::string_view to_string(AttentionKernel kernel) { return kernel_names[static_cast<std::size_t>(kernel)]; }

std::vector<std::string> attention_kernels() { return {kernel_names.begin(), kernel_names.end()}; }

AttentionKernel attention_kernel(std::string_view name) {
  return static_cast<AttentionKernel>(std::ranges::find(kernel_names, name) - kernel_names.begin());
}

std::size_t attributes_index(OperatorKind kind) {
  static const auto indices = std::to_array<std::size_t>({
#define OPERATOR(kind, attributes, ...) Attributes(attributes{}).index(),
#include "model/graph/operators.def"
  });
  return indices[static_cast<std::size_t>(kind)];
}

}  // namespace plumbline::model
