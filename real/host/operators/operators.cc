#include "real/host/operators/operators.h"

#include <cassert>

#include "real/host/operators/gemm.h"
#include "real/host/operators/rows.h"
#include "real/host/rounding.h"

namespace plumbline::real::host {
namespace {

[[maybe_unused]] bool is_known(model::DataType type) {
  return is_16_bit(type) || type == model::DataType::fp32 || type == model::DataType::int32 ||
         type == model::DataType::int64;
}

}  // namespace

Function function_of(model::OperatorKind kind) {
  static constexpr Function functions[] = {
#define OPERATOR(...) nullptr,
#define COMPUTED_OPERATOR(kind, ...) kind,
#include "model/graph/operators.def"
  };
  return functions[static_cast<std::size_t>(kind)];
}

// Rounds only this call's rows, because another stream may work on the rest.
void run(const Call& call) {
  const Function function = function_of(call.op().kind);
  assert(function && "the host cannot compute this operator");
  function(call);
  for (std::size_t i = 0; i < call.outs(); ++i) {
    HostBuffer& out = call.out(i);
    assert(is_known(out.type()) && "a format that the host does not emulate");
    const Range rows = call.kernel.parts > 1 ? own_rows(call) : Range{0, out.rows()};
    if (!is_16_bit(out.type())) continue;
    float* const data = out.data() + rows.begin * out.columns();
    split(call, (rows.end - rows.begin) * out.columns(), 1, [&](Index begin, Index end) {
      round_to(out.type(), {data + begin, static_cast<std::size_t>(end - begin)});
    });
  }
}

}  // namespace plumbline::real::host
