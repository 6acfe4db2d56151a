# File server: each thread creates, writes, appends to, reads, deletes and stats whole files.
set $dir=/filebench
set $nfiles=10000
set $dirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $nthreads=50
set $iosize=1m
set $appendsize=16k
define fileset name=tree,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$dirwidth,prealloc=80
define process name=main,instances=1 {
  thread name=worker,memsize=10m,instances=$nthreads {
    flowop createfile name=create1,filesetname=tree,fd=1
    flowop writewholefile name=write1,srcfd=1,fd=1,iosize=$iosize
    flowop closefile name=close1,fd=1
    flowop openfile name=open1,filesetname=tree,fd=1
    flowop appendfilerand name=append1,iosize=$appendsize,fd=1
    flowop closefile name=close2,fd=1
    flowop openfile name=open2,filesetname=tree,fd=1
    flowop readwholefile name=read1,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
    flowop deletefile name=delete1,filesetname=tree
    flowop statfile name=stat1,filesetname=tree
  }
}
