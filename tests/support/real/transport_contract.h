// What every transport of the host promises, checked by all ranks of a world at once.
#pragma once

#include <string>

#include "real/host/comm/transport.h"

namespace plumbline::tests {

// Called by every rank. "" or what is wrong, as this rank sees it.
std::string check_transport(real::host::Transport& transport);

}  // namespace plumbline::tests
