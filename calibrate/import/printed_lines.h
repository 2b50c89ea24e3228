// Lines of what programs print, as launchers and loggers pass them on.
#pragma once

#include <functional>
#include <string_view>

namespace plumbline::calibrate {

// Visits the lines in order, without ANSI colours and without what launchers and loggers put before them:
// "[1,0]<stdout>:" of mpirun, "3: " of srun, "[rank0]:" of torchrun, "node-1: " of pdsh and kubectl, "(Worker pid=7) "
// of Ray, times, and levels and places in brackets. A carriage return ends a line, as progress bars use it. `number`
// counts lines of the file from 1; `ended` is false only of text behind the last line end, which may have been cut.
void visit_printed_lines(std::string_view text,
                         const std::function<void(std::string_view line, int number, bool ended)>& visit);

}  // namespace plumbline::calibrate
