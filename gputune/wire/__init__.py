"""Between machines: what agents and screens say to each other, over Arrow Flight. Only this package knows Flight.

messages      what is asked and answered, as plain data; `PROTOCOL` is its version
address       where an agent is: a Unix socket, or a host and a port
credentials   certificates and tokens: made by `gputune agent --init`, and read back
door          the only thing that listens on TCP: TLS, and limits on who comes in and on what they may send
server        the Flight service behind it, and on the Unix socket
client        one agent as seen from elsewhere; every answer is checked before it is believed
failing       why an agent cannot be reached, in one sentence
"""
