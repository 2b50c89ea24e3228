#include "real/executor/parameter_part.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/random.h"

namespace plumbline::real {

namespace {

using model::Tensor;

struct Extents {
  std::int64_t rows = 1, columns = 1;
};

Extents extents(const Tensor& tensor) {
  Extents result;
  if (tensor.shape.size() > 1) result.columns = tensor.shape.back().size;
  for (std::size_t i = 0; i + (tensor.shape.size() > 1 ? 1 : 0) < tensor.shape.size(); ++i)
    result.rows *= tensor.shape[i].size;
  return result;
}

// Heights of what stands one under the other in one matrix.
std::vector<std::int64_t> things(const model::Architecture& a, const Tensor& tensor, std::int64_t rows) {
  const std::string name = tensor.role == model::Role::gradient ? tensor.name.substr(2) : tensor.name;
  if (name == "qkv" || name == "qkv_bias")
    return {a.heads * a.head_dim, a.key_value_heads * a.head_dim, a.key_value_heads * a.head_dim};
  if (name.find("gate_up") != std::string::npos) return {rows / 2, rows / 2};
  return {rows};
}

struct Rows {  // a range of rows of the whole
  std::int64_t first = 0, count = 0;
};

std::vector<Rows> divided_rows(const std::vector<std::int64_t>& heights, Rows all, std::int64_t parts,
                               std::int64_t part) {
  const std::int64_t height = std::accumulate(heights.begin(), heights.end(), std::int64_t{0});
  std::vector<Rows> result;
  for (std::int64_t matrix = 0; matrix < all.count / height; ++matrix) {
    std::int64_t first = all.first + matrix * height;
    for (const std::int64_t thing : heights) {
      result.push_back({first + part * (thing / parts), thing / parts});
      first += thing;
    }
  }
  return result;
}

// FNV-1a.
std::uint64_t seed_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

std::vector<float> part_of(const model::Architecture& architecture, const Tensor& whole, const Tensor& held,
                           const Division& division, std::span<const float> values) {
  const Extents all = extents(whole), own = extents(held);
  Rows dealt{0, all.rows};
  std::int64_t experts = 1;
  if (held.expert) {
    experts = held.shape[0].size;
    dealt = {division.expert_rank * (all.rows / division.expert), all.rows / division.expert};
  }
  const std::int64_t parts = held.expert ? division.expert_tensor : division.tensor;
  const std::int64_t part = held.expert ? division.expert_tensor_rank : division.tensor_rank;
  std::vector<Rows> rows = {dealt};
  if (own.rows < dealt.count)
    rows = divided_rows(things(architecture, held, dealt.count / experts), dealt, parts, part);
  const std::int64_t first_column = own.columns < all.columns ? part * own.columns : 0;
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(own.rows * own.columns));
  for (const Rows& range : rows)
    for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
      const auto* begin = values.data() + row * all.columns + first_column;
      result.insert(result.end(), begin, begin + own.columns);
    }
  return result;
}

std::vector<float> initial_values(const Tensor& whole, const std::string& name) {
  const Extents shape = extents(whole);
  std::vector<float> values(static_cast<std::size_t>(shape.rows * shape.columns));
  if (whole.shape.size() == 1) {
    const bool is_bias = whole.name.ends_with("_bias");
    std::ranges::fill(values, is_bias ? 0.0F : 1.0F);
    return values;
  }
  model::Random random(seed_of(name));
  const double deviation = 1 / std::sqrt(static_cast<double>(shape.columns));
  for (float& value : values) value = static_cast<float>(deviation * random.normal());
  return values;
}

}  // namespace plumbline::real
