// The operators of passes of inference: caches of keys and values, attention over them, the choice of the next token.
#include "model/base/random.h"
#include "real/host/operators/gemm.h"
#include "real/host/operators/heads.h"
#include "real/host/operators/operators.h"

namespace plumbline::real::host {
namespace {

// The tokens of a pass: new ones of each request, after those that its lengths count.
struct Requests {
  const HostBuffer& lengths;
  Index count, fresh;  // requests, new tokens of each

  Requests(const HostBuffer& all, const HostBuffer& rows)
      : lengths(all), count(all.size()), fresh(rows.rows() / all.size()) {}

  Index length(Index request) const { return static_cast<Index>(lengths.data()[request]); }
  // Returns the row of a position in a cache, which has equally many rows for each request.
  Index row_of(const HostBuffer& cache, Index request, Index position) const {
    return request * (cache.rows() / count) + position;
  }
};

// Attends with the new queries of one head of one request to the keys from the first that any of them sees.
void attend(const Call& call, const Requests& requests, Index request, Index head) {
  const auto& a = call.attributes<model::CachedAttentionAttributes>();
  const HostBuffer &q = call.in(0), &keys = call.in(2), &values = call.in(a.latent ? 2 : 3);
  const Visibility seen(a);
  const Index shared = a.latent ? 0 : head / (a.query_heads / a.key_value_heads);
  const Index length = requests.length(request), low = seen.first_key(length), count = length + requests.fresh - low;
  Part scores{scratch<Scratch::scores>(requests.fresh * count), requests.fresh, count, Eigen::OuterStride<>(count)};
  const Index from = requests.row_of(keys, request, low);
  multiply({part(q, request * requests.fresh, head * a.query_key_dim, requests.fresh, a.query_key_dim)},
           {part(keys, from, shared * a.query_key_dim, count, a.query_key_dim), true}, scores,
           {.scale = static_cast<float>(a.scale)});
  for (Index t = 0; t < requests.fresh; ++t) {
    const Index first = seen.first_key(length + t) - low, last = length + t + 1 - low;
    ArrayMap visible(scores.data() + t * count + first, last - first);
    seen.add_bias(head, visible);
    visible /= exponentiate(visible).sum;
    scores.row(t).head(first).setZero();
    scores.row(t).tail(count - last).setZero();
  }
  multiply({ConstPart(scores.data(), requests.fresh, count, Eigen::OuterStride<>(count))},
           {part(values, from, shared * a.value_dim, count, a.value_dim)},
           part(call.out(0), request * requests.fresh, head * a.value_dim, requests.fresh, a.value_dim));
}

// Returns the generator of a request's noise in a step, the same in every division of a batch.
model::Random noise_of(const StepNumbers& numbers, Index request) {
  const auto number = static_cast<std::uint64_t>(numbers.first_request + request);
  const auto step = static_cast<std::uint64_t>(numbers.step);
  return model::Random(model::mixed(numbers.seed + model::mixed(step ^ model::mixed(number + 1))));
}

// Returns a random number of Gumbel's distribution.
float gumbel(model::Random& random) { return static_cast<float>(-std::log(-std::log(random.uniform()))); }

}  // namespace

void append_cache(const Call& call) {
  const Requests requests(call.in(0), call.in(1));
  const auto copy = [&](const HostBuffer& rows, HostBuffer& cache, Index column) {
    for (Index i = 0; i < rows.rows(); ++i) {
      const Index request = i / requests.fresh;
      const Index at = requests.row_of(cache, request, requests.length(request) + i % requests.fresh);
      row(cache, at).segment(column, rows.columns()) = row(rows, i);
    }
  };
  Index column = 0;
  for (std::size_t i = 1; i < call.ins(); ++i) {
    copy(call.in(i), call.out(call.outs() > 1 ? i - 1 : 0), column);
    if (call.outs() == 1) column += call.in(i).columns();
  }
}

void gather_cache(const Call& call) { split(call); }

void cached_attention(const Call& call) {
  const Requests requests(call.in(1), call.in(0));
  const Index heads = call.attributes<model::CachedAttentionAttributes>().query_heads;
  const Index work = call.in(2).size() / requests.count;
  each_row(call, requests.count * heads, work, [&](Index i) { attend(call, requests, i / heads, i % heads); });
}

void head_matmul(const Call& call) {
  const auto& a = call.attributes<model::HeadMatmulAttributes>();
  const HostBuffer &x = call.in(0), &w = call.in(1);
  HostBuffer& y = call.out(0);
  const Index in = x.columns() / a.heads, out = y.columns() / a.heads, height = out - a.copied;
  each_row(call, a.heads, x.rows() * in * height, [&](Index head) {
    multiply({part(x, 0, head * in, x.rows(), in - a.copied)}, {part(w, head * height, 0, height, in - a.copied), true},
             part(y, 0, head * out, x.rows(), height));
    part(y, 0, head * out + height, x.rows(), a.copied) = part(x, 0, (head + 1) * in - a.copied, x.rows(), a.copied);
  });
}

void last_tokens(const Call& call) {
  const HostBuffer& x = call.in(0);
  HostBuffer& last = call.out(0);
  const Index fresh = x.rows() / last.rows();
  for (Index i = 0; i < last.rows(); ++i) row(last, i) = row(x, (i + 1) * fresh - 1);
}

// With a temperature T a token is drawn by softmax(logits / T): the largest of logits / T + Gumbel noise (Gumbel 1954).
void sample(const Call& call) {
  const HostBuffer& logits = call.in(0);
  HostBuffer& ids = call.out(0);
  const StepNumbers& numbers = call.kernel.numbers;
  const auto scale = static_cast<float>(numbers.temperature > 0 ? 1 / numbers.temperature : 1);
  each_row(call, ids.rows(), logits.size() / ids.rows(), [&](Index request) {
    model::Random random = noise_of(numbers, request);
    float best = -std::numeric_limits<float>::infinity();
    for (Index token = 0; token < logits.size() / ids.rows(); ++token) {
      const Index part = token / logits.columns();
      float score = scale * row(logits, part * ids.rows() + request)(token % logits.columns());
      if (numbers.temperature > 0) score += gumbel(random);
      if (score <= best) continue;
      best = score;
      ids.data()[request] = static_cast<float>(token);
    }
  });
}

}  // namespace plumbline::real::host
