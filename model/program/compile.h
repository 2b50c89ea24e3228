// Compiles a plan to its step program.
#pragma once

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "model/program/routing.h"
#include "model/program/stage_library.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

// plan and layout must belong together (make_layout succeeded). The routing spread over the expert-parallel ranks
// determines how many tokens a rank receives. Its estimate takes longer than all the rest, so callers that have it pass
// it. Errors: an unknown schedule; a schedule that does not exist for the layout (infeasible).
Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout);
Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout,
                            const RoutingSpread& spread);

// Builds the same program from a library for the plan's graphs, which gets the parts it lacks. `schedule` is built for
// the layout. The program has all blocks and stage kinds of the library, used by this plan or not. Its templates are
// those that it uses, in the order of their first use, rank by rank.
StepProgram assemble(const Plan& plan, const Architecture& architecture, const Layout& layout, Schedule schedule,
                     StageLibrary& library);

// Returns the blocks of a stage as StageLibrary::kind() takes them.
BlockList block_list(const Plan& plan, const Architecture& architecture, const Layout& layout, std::int64_t stage);

}  // namespace plumbline::model
