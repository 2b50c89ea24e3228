// What ranks decide together between steps, so that an error of one ends the work of all in the same place.
#pragma once

#include "model/base/error.h"
#include "real/executor/communicator.h"

namespace plumbline::real {

// Every rank calls it with what became of its own part. Success when all succeeded. Otherwise an error on every rank:
// its own where it failed, the first failing rank's text on rank 0, elsewhere only which rank failed.
model::Result<void> agree(Communicator& communicator, const model::Result<void>& own);

// Rank 0's whole number (below 2^53) on every rank; also a barrier.
model::Result<std::int64_t> from_first(Communicator& communicator, std::int64_t value);

}  // namespace plumbline::real
