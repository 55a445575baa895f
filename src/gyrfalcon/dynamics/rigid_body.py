"""The part of a robot's dynamics that is known up to parameters: τ = Φ(q, q̇, q̈) π."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

INERTIAL = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
FRICTION = ("viscous", "coulomb", "offset")


class RigidBody:
    """The regressor Φ of a robot of rigid bodies, with friction and rotors.

    Pinocchio makes it: `pip install 'gyrfalcon[robots]'`. Ten inertial parameters for each link come first: mass, first
    moments and inertia about the joint's frame. Then come, for each kind of friction and for the rotors, one parameter
    for each joint.

    Parameters
    ----------
    model : pinocchio.Model
        With revolute or prismatic joints of one coordinate each.
    friction : sequence of "viscous", "coulomb" and "offset"
        Torques q̇ⱼ, sign q̇ⱼ and 1 times a parameter.
    rotor_inertia : bool
        Torques q̈ⱼ times a parameter.

    Attributes
    ----------
    parameters : array
        Those of the model: inertial parameters as the robot's description has them, zero for the others.
    names : list of str
    joints : int

    Examples
    --------
    >>> import numpy as np, pytest, gyrfalcon as gf
    >>> pinocchio = pytest.importorskip("pinocchio")
    >>> arm = gf.dynamics.RigidBody(pinocchio.buildSampleModelManipulator(), friction=("viscous",))
    >>> q = dq = ddq = np.zeros((5, arm.joints))
    >>> arm(q, dq, ddq).shape, arm.names[60]
    ((5, 6, 66), 'viscous of shoulder1_joint')
    """

    def __init__(self, model: Any, *, friction: Sequence[str] = (), rotor_inertia: bool = False):
        unknown = [kind for kind in friction if kind not in FRICTION]
        if unknown:
            raise ValueError(f"friction must be some of {FRICTION}, got {unknown[0]!r}")
        if model.nq != model.nv or model.nv != model.njoints - 1:
            raise ValueError("the robot must have joints of one coordinate each, on a base that does not move")
        self.model, self.friction, self.rotor_inertia = model, tuple(friction), bool(rotor_inertia)
        self._data = model.createData()
        self.joints = int(model.nv)
        bodies = list(model.names)[1:]
        self.names = [f"{part} of {body}" for body in bodies for part in INERTIAL]
        self.names += [f"{kind} of {body}" for kind in self.friction for body in bodies]
        self.names += [f"rotor of {body}" for body in bodies if rotor_inertia]
        inertial = np.concatenate([model.inertias[i].toDynamicParameters() for i in range(1, model.njoints)])
        self.parameters = np.concatenate([inertial, np.zeros(len(self.names) - len(inertial))])

    @classmethod
    def from_urdf(
        cls, path: str | os.PathLike[str], *, friction: Sequence[str] = (), rotor_inertia: bool = False
    ) -> RigidBody:
        """The robot that a URDF file describes.

        Parameters
        ----------
        path : path of a URDF file
        friction, rotor_inertia
            See the class.
        """
        return cls(_pinocchio().buildModelFromUrdf(os.fspath(path)), friction=friction, rotor_inertia=rotor_inertia)

    def __call__(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Φ for each row, of shape (n, joints, parameters).

        Parameters
        ----------
        q, dq, ddq : array of shape (n, joints)
            Positions, velocities and accelerations.
        """
        regressor = _pinocchio().computeJointTorqueRegressor
        count, own = len(q), 10 * self.joints
        out = np.zeros((count, self.joints, len(self.names)))
        for row in range(count):
            out[row, :, :own] = regressor(self.model, self._data, q[row], dq[row], ddq[row])
        values = {"viscous": dq, "coulomb": np.sign(dq), "offset": np.ones_like(dq)}
        diagonal = np.arange(self.joints)
        for kind in (*(values[kind] for kind in self.friction), *([ddq] if self.rotor_inertia else [])):
            out[:, diagonal, own + diagonal] = kind
            own += self.joints
        return out


def _pinocchio() -> Any:
    try:
        import pinocchio
    except ImportError as error:
        raise ImportError("rigid bodies need pinocchio: pip install 'gyrfalcon[robots]'") from error
    return pinocchio
