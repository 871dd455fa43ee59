"""The quality of an inference without running it. NumPy, float64.

mse          exact mean square error                      law              distribution of the estimate
margin       how far it may move; lipschitz: constants    accuracy         proven lower bounds
server       the server as matrices                       together         devices that fade together
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
