// Agreement of all ranks between steps, so that an error of one ends the work of all at the same point.
#pragma once

#include "model/base/error.h"
#include "real/executor/communicator.h"

namespace plumbline::real {

// Every rank calls it with the result of its own part. Returns success when all succeeded, otherwise an error on every
// rank: a failing rank's own, the first failing rank's text on rank 0, elsewhere only which rank failed.
model::Result<void> agree(Communicator& communicator, const model::Result<void>& own);

// Returns rank 0's whole number (below 2^53) on every rank; also a barrier.
model::Result<std::int64_t> from_first(Communicator& communicator, std::int64_t value);

}  // namespace plumbline::real
