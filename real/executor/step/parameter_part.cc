#include "real/executor/step/parameter_part.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/bytes.h"
#include "model/base/random.h"
#include "model/plan/layout.h"
#include "real/executor/device.h"
#include "real/executor/parallel.h"

namespace plumbline::real {
namespace {

using model::Tensor;

// Returns the rows of each output that one fused matrix computes, from top to bottom.
std::vector<std::int64_t> fused_outputs(const model::Architecture& a, const Tensor& tensor, std::int64_t rows) {
  const std::string name = tensor.role == model::Role::gradient ? tensor.name.substr(2) : tensor.name;
  if (name == "qkv" || name == "qkv_bias")
    return {a.heads * a.head_dim, a.key_value_heads * a.head_dim, a.key_value_heads * a.head_dim};
  if (name.find("gate_up") != std::string::npos) return {rows / 2, rows / 2};
  return {rows};
}

struct Rows {  // a range of rows of the whole parameter
  std::int64_t first = 0, count = 0;
};

std::vector<Rows> divided_rows(const std::vector<std::int64_t>& heights, Rows all, std::int64_t parts,
                               std::int64_t part) {
  const std::int64_t height = std::accumulate(heights.begin(), heights.end(), std::int64_t{0});
  std::vector<Rows> result;
  for (std::int64_t matrix = 0; matrix < all.count / height; ++matrix) {
    std::int64_t first = all.first + matrix * height;
    for (const std::int64_t output : heights) {
      result.push_back({first + part * (output / parts), output / parts});
      first += output;
    }
  }
  return result;
}

std::int64_t rows_worth_a_thread(std::int64_t columns) {
  constexpr std::int64_t numbers = 1 << 16;  // take about 2 ms; a thread starts in some 20 us
  return std::max<std::int64_t>(1, numbers / columns);
}

// The position of a part in the whole parameter.
struct PartPlace {
  std::vector<std::int64_t> rows;  // of the whole, for each row of the part
  std::int64_t first_column = 0, columns = 0, columns_of_whole = 0;

  std::int64_t first_element(std::int64_t row) const {
    return rows[static_cast<std::size_t>(row)] * columns_of_whole + first_column;
  }
};

PartPlace place_of(const model::Architecture& architecture, const Tensor& whole, const Tensor& held,
                   const Division& division) {
  const TensorShape all = matrix_shape(whole), own = matrix_shape(held);
  Rows dealt{0, all.rows};
  std::int64_t experts = 1;
  if (held.expert) {
    experts = held.shape[0].size;
    dealt = {division.expert_rank * (all.rows / division.expert), all.rows / division.expert};
  }
  const std::int64_t parts = held.expert ? division.expert_tensor : division.tensor;
  const std::int64_t part = held.expert ? division.expert_tensor_rank : division.tensor_rank;
  std::vector<Rows> ranges = {dealt};
  if (own.rows < dealt.count)
    ranges = divided_rows(fused_outputs(architecture, held, dealt.count / experts), dealt, parts, part);
  PartPlace place{{}, own.columns < all.columns ? part * own.columns : 0, own.columns, all.columns};
  for (const Rows& range : ranges)
    for (std::int64_t row = range.first; row < range.first + range.count; ++row) place.rows.push_back(row);
  return place;
}

}  // namespace

Division division_of(const model::Parallelism& degrees, std::int64_t index) {
  const auto [experts, stride] = model::expert_group(degrees);
  return {degrees.tensor, index % degrees.tensor, experts, index / stride % experts, stride, index % stride};
}

std::vector<float> part_of(const model::Architecture& architecture, const Tensor& whole, const Tensor& held,
                           const Division& division, std::span<const float> values) {
  const PartPlace place = place_of(architecture, whole, held, division);
  std::vector<float> result;
  result.reserve(place.rows.size() * static_cast<std::size_t>(place.columns));
  for (std::size_t row = 0; row < place.rows.size(); ++row) {
    const auto* begin = values.data() + place.first_element(static_cast<std::int64_t>(row));
    result.insert(result.end(), begin, begin + place.columns);
  }
  return result;
}

void put_part(const model::Architecture& architecture, const Tensor& whole, const Tensor& held,
              const Division& division, std::span<const float> part, std::span<float> values) {
  const PartPlace place = place_of(architecture, whole, held, division);
  for (std::size_t row = 0; row < place.rows.size(); ++row) {
    const auto from =
        part.subspan(row * static_cast<std::size_t>(place.columns), static_cast<std::size_t>(place.columns));
    std::ranges::copy(from, values.begin() + place.first_element(static_cast<std::int64_t>(row)));
  }
}

void initial_part(const model::Architecture& architecture, const Tensor& whole, const Tensor& held,
                  const Division& division, const std::string& name, std::vector<float>& values) {
  const PartPlace place = place_of(architecture, whole, held, division);
  values.resize(place.rows.size() * static_cast<std::size_t>(place.columns));
  if (whole.shape.size() == 1) {
    std::ranges::fill(values, whole.name.ends_with("_bias") ? 0.0F : 1.0F);
    return;
  }
  const std::uint64_t seed = model::hash_of(name);
  const double deviation = 1 / std::sqrt(static_cast<double>(place.columns_of_whole));
  constexpr std::uint64_t draws = 2;  // random numbers per normal number
  const auto fill_rows = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      model::Random random(seed, draws * static_cast<std::uint64_t>(place.first_element(row)));
      float* const to = values.data() + row * place.columns;
      for (std::int64_t column = 0; column < place.columns; ++column)
        to[column] = static_cast<float>(deviation * random.normal());
    }
  };
  in_parallel(static_cast<std::int64_t>(place.rows.size()), rows_worth_a_thread(place.columns), fill_rows);
}

}  // namespace plumbline::real
