#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// The source rank of a received token and its place there.
struct Origin {
  std::size_t rank;
  Index token;
};

// Where experts are divided by columns too, the ranks that hold parts of the same ones are adjacent. A token goes to
// the part with the number that its source has among its adjacent ranks.
std::size_t replicas(std::size_t ranks, const model::DispatchAttributes& attributes) {
  return ranks / static_cast<std::size_t>(attributes.experts / attributes.experts_per_rank);
}

// Returns `expert` numbered within the rank `to` of `ranks`, or -1 if another rank holds it.
double local_number(double expert, std::size_t to, std::size_t ranks, const model::DispatchAttributes& attributes) {
  const auto per_rank = static_cast<double>(attributes.experts_per_rank);
  const double local = expert - static_cast<double>(to / replicas(ranks, attributes)) * per_rank;
  return local >= 0 && local < per_rank ? local : -1;
}

// Returns the distinct tokens that rank `to` receives, by source and then by position. `operand` is that of the
// indices.
std::vector<Origin> origins(Calls calls, std::size_t operand, std::size_t to) {
  const auto& attributes = calls[to].attributes<model::DispatchAttributes>();
  std::vector<Origin> result;
  const std::size_t apart = replicas(calls.size(), attributes);
  for (std::size_t rank = to % apart; rank < calls.size(); rank += apart) {
    const Matrix& indices = calls[rank].in(operand);
    const auto here = [&](double e) { return local_number(e, to, calls.size(), attributes); };
    for (Index token = 0; token < indices.rows(); ++token)
      if ((indices.row(token).array().unaryExpr(here) >= 0).any()) result.push_back({rank, token});
  }
  return result;
}

// Sends to every rank the rows of `operand` of the tokens that it receives.
void send(Calls calls, std::size_t operand, std::size_t indices, std::size_t result) {
  for (std::size_t to = 0; to < calls.size(); ++to) {
    const std::vector<Origin> received = origins(calls, indices, to);
    Matrix& out = calls[to].out(result);
    out.resize(static_cast<Index>(received.size()), calls[to].in(operand).cols());
    for (std::size_t r = 0; r < received.size(); ++r)
      out.row(r) = calls[received[r].rank].in(operand).row(received[r].token);
  }
}

// Returns to every token the sum of the rows of `operand` on the ranks that received it.
void send_back(Calls calls, std::size_t operand, std::size_t indices, std::size_t result) {
  for (std::size_t from = 0; from < calls.size(); ++from) {
    const std::vector<Origin> received = origins(calls, indices, from);
    for (std::size_t r = 0; r < received.size(); ++r)
      calls[received[r].rank].out(result).row(received[r].token) += calls[from].in(operand).row(r);
  }
}

// A copy of a token for one of its experts.
struct Copy {
  std::size_t rank;
  Index token, slot;
};

// Returns the copies that rank `to` receives, by expert, source and token, and the number before each of its experts.
std::pair<std::vector<Copy>, Matrix> copies(Calls calls, std::size_t to) {
  const auto& attributes = calls[to].attributes<model::DispatchAttributes>();
  std::vector<Copy> result;
  Matrix offsets = Matrix::Zero(attributes.experts_per_rank + 1, 1);
  for (Index expert = 0; expert < attributes.experts_per_rank; ++expert) {
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      const Matrix& indices = calls[rank].in(1);
      for (Index token = 0; token < indices.rows(); ++token)
        for (Index slot = 0; slot < indices.cols(); ++slot)
          if (local_number(indices(token, slot), to, calls.size(), attributes) == static_cast<double>(expert))
            result.push_back({rank, token, slot});
    }
    offsets(expert + 1) = static_cast<double>(result.size());
  }
  return {result, offsets};
}

void dispatch_copies(Calls calls) {
  for (std::size_t to = 0; to < calls.size(); ++to) {
    const auto [rows, offsets] = copies(calls, to);
    calls[to].out(0).resize(static_cast<Index>(rows.size()), calls[to].in(0).cols());
    for (std::size_t n = 0; n < rows.size(); ++n)
      calls[to].out(0).row(n) = calls[rows[n].rank].in(0).row(rows[n].token);
    calls[to].out(1) = offsets;
  }
}

void combine_copies(Calls calls) {
  for (std::size_t from = 0; from < calls.size(); ++from) {
    const std::vector<Copy> rows = copies(calls, from).first;
    for (std::size_t n = 0; n < rows.size(); ++n)
      calls[rows[n].rank].out(0).row(rows[n].token) +=
          calls[rows[n].rank].in(2)(rows[n].token, rows[n].slot) * calls[from].in(0).row(n);
  }
}

bool sends_copies(Calls calls) {
  return calls[0].attributes<model::DispatchAttributes>().dispatcher == model::Dispatcher::low_latency;
}

}  // namespace

void dispatch(Calls calls) {
  if (sends_copies(calls)) return dispatch_copies(calls);
  for (std::size_t operand = 0; operand < 3; ++operand) send(calls, operand, 1, operand);
  for (std::size_t to = 0; to < calls.size(); ++to) {
    const auto& attributes = calls[to].attributes<model::DispatchAttributes>();
    for (double& expert : calls[to].out(1).reshaped()) expert = local_number(expert, to, calls.size(), attributes);
  }
}

void dispatch_grad(Calls calls) {
  for (Call& call : calls) {
    call.out(0) = Matrix::Zero(call.in(2).rows(), call.in(0).cols());
    call.out(1) = Matrix::Zero(call.in(2).rows(), call.in(2).cols());
  }
  send_back(calls, 0, 2, 0);
  send_back(calls, 1, 2, 1);
}

void combine(Calls calls) {
  const bool copied = sends_copies(calls);
  for (Call& call : calls) {
    call.out(0) = Matrix::Zero(call.in(1).rows(), call.in(0).cols());
    for (std::size_t addend = copied ? 3 : 2; addend < call.ins(); ++addend) call.out(0) += call.in(addend);
  }
  if (copied) return combine_copies(calls);
  send_back(calls, 0, 1, 0);
}

void combine_grad(Calls calls) { send(calls, 0, 1, 0); }

}  // namespace plumbline::tests
