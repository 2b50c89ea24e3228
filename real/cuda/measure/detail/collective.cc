#include "real/cuda/measure/detail/collective.h"

namespace plumbline::real::cuda {

std::int64_t elements_given(const CollectivePlace& place) {
  return place.op == "all_gather" ? place.elements / place.ranks : place.elements;
}

std::int64_t elements_got(const CollectivePlace& place) {
  return place.op == "reduce_scatter" ? place.elements / place.ranks : place.elements;
}

double expected_element(const CollectivePlace& place, std::int64_t index,
                        const std::function<double(int, std::int64_t)>& input) {
  const std::int64_t part = place.elements / place.ranks;
  const auto sender = static_cast<int>(index / part);
  if (place.op == "all_gather") return input(sender, index % part);
  if (place.op == "all_to_all") return input(sender, place.rank * part + index % part);
  const std::int64_t at = place.op == "reduce_scatter" ? place.rank * part + index : index;
  double sum = 0;
  for (int rank = 0; rank < place.ranks; ++rank) sum += input(rank, at);
  return sum;
}

}  // namespace plumbline::real::cuda
