#include "real/measure/detail/overlap.h"

#include <algorithm>
#include <iterator>

namespace plumbline::real {

double covered_share(double start, double end, const std::vector<KernelRecord>& records) {
  if (end <= start) return 0;
  double sum = 0;
  auto at = std::ranges::lower_bound(records, start, {}, &KernelRecord::end);
  for (; at != records.end() && at->start < end; ++at)
    sum += std::max(0.0, std::min(end, at->end) - std::max(start, at->start));
  return sum / (end - start);
}

std::vector<KernelRecord> of_stream(const std::vector<KernelRecord>& records, model::Stream stream) {
  std::vector<KernelRecord> found;
  std::ranges::copy_if(records, std::back_inserter(found),
                       [stream](const KernelRecord& record) { return record.stream == stream; });
  std::ranges::sort(found, {}, &KernelRecord::start);
  return found;
}

}  // namespace plumbline::real
