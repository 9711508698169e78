// SIGINT and SIGTERM: the first asks the run to end after the step it is in, a second one ends the process at once.
#ifndef MSAMP_RUNTIME_TRAIN_SIGNALS_H
#define MSAMP_RUNTIME_TRAIN_SIGNALS_H

namespace msamp::train {

void installStopSignals();

// The signal that asked to stop; 0: none.
int stopSignal();

} // namespace msamp::train

#endif
