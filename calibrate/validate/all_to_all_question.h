// Questions about one expert all-to-all alone, answered by the cost function of the simulation: at what rate tokens
// move when no concurrent kernel computes.
#pragma once

#include <cstdint>

#include "model/base/data_type.h"
#include "model/base/error.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// An expert all-to-all as in DeepEP's own tests (tests/test_intranode.py, tests/test_internode.py): experts form one
// group per node, and a token goes to its best groups; a group's score is that of its best expert. The kernels are
// those of family deepep-v1, on as many SMs as they need.
struct AllToAllQuestion {
  enum class Direction { dispatch, combine };
  enum class Link { nic, nvlink };
  Direction direction = Direction::dispatch;  // dispatch in the format `dispatched`, combine in BF16
  Link link = Link::nic;                      // the link whose rate is asked for
  std::int64_t ranks = 0;                     // above 1, and a divisor of `experts`
  std::int64_t tokens = 0;                    // of one rank
  std::int64_t hidden = 0;                    // elements of a token
  std::int64_t experts = 256;
  std::int64_t experts_per_token = 0;
  std::int64_t nodes_per_token = 0;  // at most; fewer when the ranks are on fewer nodes
  model::Precision dispatched = model::Precision::fp8;
};

class SingleAllToAlls {  // answers questions by the cost function of a profile
 public:
  // Input error naming the constant when the profile lacks one.
  static model::Result<SingleAllToAlls> make(const model::Profile& profile, const model::ClusterShape& cluster);

  // Returns B/s of one GPU. Over the NIC: the bytes that leave the node, over the time of the whole all-to-all. Over
  // NVLink, as DeepEP prints it: the bytes of all tokens that a GPU receives, including its own, over that time.
  double rate(const AllToAllQuestion& question) const;

 private:
  SingleAllToAlls(model::Profile profile, model::ClusterShape cluster);

  model::Profile profile_;
  model::ClusterShape cluster_;
};

}  // namespace plumbline::calibrate
