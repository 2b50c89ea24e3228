// Guarantees of every host transport, checked by all ranks of a world at once.
#pragma once

#include <string>

#include "real/host/comm/transport.h"

namespace plumbline::tests {

// Returns "" or the first failure that this rank finds. Every rank must call it.
std::string check_transport(real::host::Transport& transport);

}  // namespace plumbline::tests
