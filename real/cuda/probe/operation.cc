#include "real/cuda/probe/operation.h"

#include <string>
#include <utility>

namespace plumbline::real::cuda {

std::unique_ptr<Operation> make_operation(const Case& what) {
  using Make = std::unique_ptr<Operation> (*)(const Case&);
  static constexpr std::pair<const char*, Make> makers[] = {
      {"attention", make_attention}, {"gemm", make_gemm},       {"rmsnorm", make_rmsnorm}, {"swiglu", make_swiglu},
      {"quantise", make_quantise},   {"permute", make_permute}, {"adamw", make_adamw}};
  for (const auto& [name, make] : makers) {
    if (what.operation() == name) return make(what);
  }
  return nullptr;
}

}  // namespace plumbline::real::cuda
